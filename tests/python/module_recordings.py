"""Recordings of modules with what it takes to call them again, for tests of `tap.replay`."""

import tensortap as tap


def recorded(model, directory, *calls, **options):
    """The passes of a recording with these calls, each a function of the model."""
    options = {"roles": "in,out,param", "modules": "all", "report": False, **options}
    with tap.record(model, directory, **options):
        for call in calls:
            call()
    return list(tap.open(directory).ranks[0].passes.values())


def event_of(kept, name, call=1):
    (event,) = (event for event in kept.events if event.name == name and event.call == call and event.kind == "module")
    return event


def replayed(kept, name, model, call=1, **options):
    again = tap.replay(event_of(kept, name, call), model=model, **options)
    assert isinstance(again, tap.Replayed), again.reason
    return again


def refusal(kept, name, model, **options):
    again = tap.replay(event_of(kept, name), model=model, **options)
    assert isinstance(again, tap.NotReplayable)
    assert "\n" not in again.reason
    return again.reason
