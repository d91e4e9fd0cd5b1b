"""A fake provider to test a client against: real HTTP on loopback, three wire formats, errors, cuts and delays."""
