"""Opening databases and folders, and writing to them from one thread; other packages define what is stored."""
