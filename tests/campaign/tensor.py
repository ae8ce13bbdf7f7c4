"""trntensor."""
