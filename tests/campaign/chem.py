"""trnchem."""
