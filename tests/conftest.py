"""What all tests share."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "ziggurat", deadline=None, max_examples=100, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ziggurat")
