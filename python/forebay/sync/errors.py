"""The error of a job whose processes cannot go on together."""

import torch.distributed as dist


class SyncError(dist.DistBackendError):
    """Processes of the job are gone, cannot be reached, or did not come in time.

    It is a RuntimeError, and one of PyTorch's errors of distributed jobs, so whoever restarts a job
    after these restarts it after this one. Wrong arguments raise ValueError instead.
    """
