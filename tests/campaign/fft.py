"""trnfft."""
