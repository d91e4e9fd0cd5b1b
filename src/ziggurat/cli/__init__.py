"""The command line: `main` is the entry point, `app` lists the commands, and each group of commands has a file."""
