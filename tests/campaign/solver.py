"""trnsolver."""
