"""The one error of every data source."""


class DataError(ValueError):
    """Data is missing or damaged: the message says what is wrong, with which file, and how to get a good one."""
