"""Prints the devices that TensorFlow sees in the job."""

import os

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # which TensorFlow would comment on

import tensorflow as tf

print(f"NV_GPU={os.environ.get('NV_GPU', '')}")
print(f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')}")
for device in tf.config.list_physical_devices():
    print(f"{device.device_type} {device.name}")
