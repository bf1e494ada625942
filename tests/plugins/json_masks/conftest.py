"""The vocabulary of the tests, and the provider over it."""

from __future__ import annotations

import pytest

from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_json_masks.provider import JsonMaskProvider
from tests.plugins.json_masks.vocabularies import json_like


@pytest.fixture(scope="session")
def masks():
    """The provider over tokens as JSON's writers have them."""
    return JsonMaskProvider().bind(json_like())


@pytest.fixture(scope="session")
def byte_masks():
    """The provider over single bytes."""
    return JsonMaskProvider().bind(Vocabulary.of_bytes())
