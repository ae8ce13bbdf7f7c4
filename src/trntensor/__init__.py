"""trntensor: tensor contractions for Trainium."""
