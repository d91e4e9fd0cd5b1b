"""Agents over HTTP: runs are started, followed, decided and looked through by programs and in a browser.

- `assets`: the files of the page, and the headers that they are sent with
"""
