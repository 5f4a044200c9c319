"""A pretend GPU with a clock of its own, so that what happens when one times a kernel can be shown and repeated exactly.

It has what matters to a stopwatch and nothing else: launches that return at once, one queue, a compilation at the first
call, noise, an L2 cache, and a speed that changes with time. Seconds throughout; no figure of a real device.
"""

from itertools import cycle


class FakeGPU:
    """`now` is the host's clock, `idle_at` the time at which the queued work will be done.

    launch: host time of one launch. slowdown(t): factor on the work that starts at device time t.
    """

    def __init__(self, launch=5e-6, slowdown=lambda t: 1.0):
        self.launch, self.slowdown = launch, slowdown
        self.now = self.idle_at = 0.0
        self.cached = None  # the kernel whose data L2 holds

    def clock(self):
        """The host's clock, to be read like time.perf_counter."""
        return self.now

    def synchronize(self):
        """Wait on the host until the queue is empty."""
        self.now = max(self.now, self.idle_at)

    def event(self):
        """Device time at which an event recorded now is passed: when all that was queued before it is done."""
        return max(self.now, self.idle_at)

    def flush(self, seconds=50e-6):
        """Queue a kernel that overwrites the whole L2 cache."""
        self.kernel(seconds)()
        self.cached = None

    def kernel(self, seconds, *, compile=0.0, cached=1.0, noise=(1.0,)):
        """A function that launches work of `seconds`.

        compile: host time of the first call alone. cached: factor where L2 still holds the data of the call before.
        noise: factors of one call after another, over and over.
        """
        first, factors = [True], cycle(noise)

        def call():
            if first:
                self.now += compile
                first.clear()
            self.now += self.launch  # the host is done here
            start = max(self.now, self.idle_at)
            reuse = cached if self.cached is call else 1.0
            self.idle_at = start + seconds * reuse * next(factors) * self.slowdown(start)
            self.cached = call

        return call
