"""Says where it runs, and whom it knows."""
import os

print("hello from", os.environ["BERTH_SERVER"], "with GPUs", os.environ.get("NV_GPU", "none"))
print("my cluster:", os.environ.get("TF_CONFIG", "none"))
