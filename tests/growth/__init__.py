"""How the time of every function that reads what others wrote grows with the size of what it reads."""
