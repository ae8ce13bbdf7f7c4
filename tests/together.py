"""Tables of cheap cases as one item each."""

import functools
import inspect

# Failures shown: what fails for one function often fails for all.
_MOST = 5


def together(names, values):
    """Decorate a test whose cases are cheap: one item runs them all, and an `ExceptionGroup` has those that fail.

    Args:
        names: an argument of the test, or several.
        values: a value, or a tuple of values, for each case; fixtures are the same for all.
    """
    arguments = (names,) if isinstance(names, str) else tuple(names)
    cases = [dict(zip(arguments, (value,) if isinstance(names, str) else value, strict=True)) for value in values]

    def decorate(test):
        @functools.wraps(test)
        def every(**fixtures):
            failures = []
            for case in cases:
                try:
                    test(**case, **fixtures)
                except Exception as error:  # noqa: BLE001
                    error.add_note(f"in the case {case}")
                    failures.append(error)
                    if len(failures) == _MOST:
                        break
            if failures:
                raise ExceptionGroup(f"{test.__name__}: cases that fail, at most {_MOST} of them", failures)

        parameters = inspect.signature(test).parameters
        kept = [parameter for name, parameter in parameters.items() if name not in arguments]
        every.__signature__ = inspect.Signature(kept)
        return every

    return decorate
