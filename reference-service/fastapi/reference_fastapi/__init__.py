"""The reference service in Python: the same routes on blocking and on awaited stores.

`reference_fastapi.blocking:app` is the state before the migration and
`reference_fastapi.asynchronous:app` the one after it. All that differs lies in the two folders of
those names.
"""
