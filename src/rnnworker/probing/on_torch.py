"""Products and additions in PyTorch."""


class Arithmetic:
    def __init__(self, session):
        self.session, self.torch = session, session.torch
        self.device = "cuda" if session.config["device"]["kind"] == "gpu" else "cpu"

    def products(self, m, k, n, count):
        """Returns a function that computes `count` float32 products (m, k) × (k, n), one after
        another, each launched from Python like torch's loops over time."""
        torch = self.torch
        left, right = [self._random(m, k) for _ in range(count)], self._random(k, n)
        out = torch.empty((m, n), device=self.device)

        def run():
            with torch.no_grad():
                for matrix in left:
                    torch.mm(matrix, right, out=out)
            self.session.finish_device()

        return run

    def addition(self, elements):
        """Returns a function that computes a += b in place over `elements` float32 numbers."""
        a, b = self._random(elements), self._random(elements)

        def run():
            a.add_(b)
            self.session.finish_device()

        return run

    def _random(self, *shape):
        return self.torch.rand(shape, dtype=self.torch.float32, device=self.device)
