"""Real servers for tests, on loopback: nginx, Ceph's S3 gateway, and a proxy that makes faults.

conftest.py has the fixtures (`nginx`, `s3`, `chaos`). A run of pytest starts each server at most
once, when a test first asks for it, and all workers of the run share it (keeper.py).
"""
