"""Opening databases and folders, and writing to them from one thread; other rooms say what is stored."""
