"""trnsparse."""
