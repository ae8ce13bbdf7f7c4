"""Programs for Trainium: their passes and tables, what they guarantee, and their launch."""
