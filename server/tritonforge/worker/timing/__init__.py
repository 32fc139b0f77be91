"""Measuring launches on a GPU so that the times can be believed.

`taking` runs a call once and keeps what can be repeated of it; `queueing` puts one launch on the stream behind a busy
GPU; `records` reads the device's own start and end of each kernel; `rounds` interleaves, drops and repeats; `whole`
times calls with all that their host code does; `health` asks the driver whether the GPU was slowed down; `judging` is
the arithmetic, without torch.
"""
