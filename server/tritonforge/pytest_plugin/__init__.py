"""The pytest plugin: `pytest --tritonforge`, a mark, and two fixtures, `kernel_benchmark` and `kernel_verify`.

`plugin` is what pytest loads, in every run of an environment that has TritonForge installed: it imports nothing but
pytest. `laboratory` keeps one worker for a session, `benchmark` and `verification` are what the fixtures give.
"""
