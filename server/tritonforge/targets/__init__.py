"""How a worker is started and reached: a local process or a command prefix that gives a pipe."""
