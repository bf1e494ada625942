"""Conformance suites: tests that state an interface's contract, to be inherited by a plugin's own tests.

Subclass a suite in a test module, name the class ``Test…``, give its fixture, and pytest runs what is inherited.
This package alone imports pytest, and aiohttp for protocols; they are no dependencies of Infernix: the extra
``testing`` brings them.
"""

from __future__ import annotations

import pytest

# Before the modules are imported, so that a failing assertion shows its values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{name}"
        for name in (
            "mask_provider",
            "walks",
            "sampler",
            "rounds",
            "frontend",
            "target",
            "speculative",
            "protocol",
            "serving",
            "wire",
            "controlled",
        )
    )
)

from infernix_core.testing.conformance.frontend import FrontendSuite  # noqa: E402
from infernix_core.testing.conformance.mask_provider import MaskProviderSuite  # noqa: E402
from infernix_core.testing.conformance.protocol import ProtocolSuite  # noqa: E402
from infernix_core.testing.conformance.rounds import Row, law  # noqa: E402
from infernix_core.testing.conformance.sampler import SamplerSuite  # noqa: E402
from infernix_core.testing.conformance.speculative import SpeculativeBackendSuite  # noqa: E402
from infernix_core.testing.conformance.walks import ContentCase  # noqa: E402
from infernix_core.testing.conformance.wire import WireClient, WireRequest  # noqa: E402

__all__ = [
    "ContentCase",
    "FrontendSuite",
    "MaskProviderSuite",
    "ProtocolSuite",
    "Row",
    "SamplerSuite",
    "SpeculativeBackendSuite",
    "WireClient",
    "WireRequest",
    "law",
]
