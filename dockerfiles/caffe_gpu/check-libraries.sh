#!/bin/sh
# Checks that everything that Caffe is compiled with, apart from CUDA, is where Makefile.config says: compiles a file that
# includes the headers, and links it with the libraries.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/Makefile" <<'MAKE'
include Makefile.config
show:
	@echo $(addprefix -I,$(INCLUDE_DIRS)) $(addprefix -L,$(LIBRARY_DIRS)) $(COMMON_FLAGS)
	@echo $(addprefix -l,$(PYTHON_LIBRARIES))
MAKE
make -s -f "$work/Makefile" show >"$work/flags"
cat >"$work/check.cpp" <<'CODE'
#include <boost/filesystem.hpp>
#include <boost/python.hpp>
#include <boost/thread.hpp>
#include <cblas.h>
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <google/protobuf/message.h>
#include <hdf5_hl.h>
#include <leveldb/db.h>
#include <lmdb.h>
#include <numpy/arrayobject.h>
#include <opencv2/highgui/highgui.hpp>
#include <opencv2/imgproc/imgproc.hpp>

int main() { return cv::imread("", CV_LOAD_IMAGE_COLOR).rows + CV_LOAD_IMAGE_GRAYSCALE; }
CODE
# shellcheck disable=SC2046 # Flags, one word each.
g++ -w "$work/check.cpp" -o "$work/check" -Wl,--no-as-needed $(cat "$work/flags") -lboost_filesystem -lboost_system \
  -lboost_thread -lopenblas -lgflags -lglog -lprotobuf -lhdf5_serial_hl -lhdf5_serial -lleveldb -llmdb -lsnappy \
  -lopencv_core -lopencv_highgui -lopencv_imgcodecs -lopencv_imgproc
protoc --version
"$work/check"
