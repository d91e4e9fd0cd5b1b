"""How a database or a folder is opened, and written by one thread; what is kept in it is for others to say."""
