"""The first hour on a Trainium: every kernel compiled, run, compared and measured, and a report of what was found."""
