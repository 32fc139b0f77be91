"""How a worker is started and reached: a local process or a command prefix that gives a pipe."""

from tritonforge.targets.fake import FAKE_WORKER, FakeTransport
from tritonforge.targets.process import ProcessTransport
from tritonforge.targets.transport import Channel, Transport

__all__ = ["FAKE_WORKER", "Channel", "FakeTransport", "ProcessTransport", "Transport"]
