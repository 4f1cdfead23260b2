"""One file per program that is measured. The class in each file is imported here for its facts and in a worker for its
library.
"""
