"""Models behind a page and a few addresses: `regard serve`. Wants FastAPI and uvicorn (the extra `serve`).

Nothing is imported here, so that a model's process (worker.py) needs neither.
"""
