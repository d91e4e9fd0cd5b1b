"""Opening databases and folders, and writing to them from one thread; other packages define what is stored.

- `writer`: the thread that writes, and renews leases; its `jobs`. `owner`: who holds a lease, and whether that process
  lives.
- On a disk: `files`, what is written to a `disk`, a `lock_file`, `marks` of what was acknowledged.
- In databases: `sqlite`, `postgres`.
- `address`: URLs without secrets; `checks` of what a store is given.
"""
