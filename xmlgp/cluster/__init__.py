"""Work on a Dask cluster: connecting, tasks that outlive their workers, and the files that all machines see."""
