"""What outlives a conversation: records, how they are scored and forgotten, and the stores that keep them."""
