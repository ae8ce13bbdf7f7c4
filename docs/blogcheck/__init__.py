"""The author brief of the blog, enforced: ``python -m docs.blogcheck [POST ...]``."""
