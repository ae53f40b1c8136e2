// The command `caffe` on top of libcaffe, with the commands and flags of the original that make sense on a CPU.

#include <caffe/caffe.hpp>
#include <caffe/util/signal_handler.h>

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

DEFINE_string(solver, "", "train: the file of the solver.");
DEFINE_string(weights, "", "train: weights to begin with, several files separated by commas; test: those to test.");
DEFINE_string(snapshot, "", "train: the state of a solver to go on from.");
DEFINE_string(gpu, "", "GPUs, separated by commas, or 'all'. This build says so and uses the CPU.");
DEFINE_string(model, "", "test: the file of the model.");
DEFINE_int32(iterations, 50, "test: how many batches.");
DEFINE_string(sigint_effect, "stop", "train: what SIGINT does: snapshot, stop or none.");
DEFINE_string(sighup_effect, "snapshot", "train: what SIGHUP does: snapshot, stop or none.");

namespace {

int fail(const std::string& problem) {
  std::fprintf(stderr, "caffe: %s\n", problem.c_str());
  return 1;
}

// Someone who asked for GPUs must know why training is slow.
void say_that_gpus_are_not_used(const std::string& asked, const char* work) {
  const bool several = asked.find(',') != std::string::npos;
  const std::string gpus = asked == "all" ? "all GPUs" : (several ? "GPUs " : "GPU ") + asked;
  std::fprintf(stderr, "caffe: this build %s on the CPU in place of %s\n", work, gpus.c_str());
}

bool readable(const std::string& file) {
  FILE* opened = std::fopen(file.c_str(), "r");
  if (opened != nullptr) {
    std::fclose(opened);
  }
  return opened != nullptr;
}

// Caffe itself would print a stack trace.
int check_file(const char* flag, const std::string& file) {
  if (file.empty()) {
    return fail(std::string("--") + flag + " is missing");
  }
  return readable(file) ? 0 : fail("cannot read the file '" + file + "' of --" + flag);
}

bool action(const std::string& effect, caffe::SolverAction::Enum* result) {
  if (effect == "stop") {
    *result = caffe::SolverAction::STOP;
  } else if (effect == "snapshot") {
    *result = caffe::SolverAction::SNAPSHOT;
  } else if (effect == "none") {
    *result = caffe::SolverAction::NONE;
  } else {
    return false;
  }
  return true;
}

int train() {
  if (check_file("solver", FLAGS_solver) != 0) {
    return 1;
  }
  if (!FLAGS_snapshot.empty() && check_file("snapshot", FLAGS_snapshot) != 0) {
    return 1;
  }
  if (!FLAGS_snapshot.empty() && !FLAGS_weights.empty()) {
    return fail("--snapshot goes on and --weights begins anew: only one of them can be given");
  }
  caffe::SolverAction::Enum on_sigint;
  caffe::SolverAction::Enum on_sighup;
  if (!action(FLAGS_sigint_effect, &on_sigint) || !action(FLAGS_sighup_effect, &on_sighup)) {
    return fail("--sigint_effect and --sighup_effect are snapshot, stop or none");
  }
  caffe::SolverParameter parameters;
  caffe::ReadSolverParamsFromTextFileOrDie(FLAGS_solver, &parameters);
  if (!FLAGS_gpu.empty()) {
    say_that_gpus_are_not_used(FLAGS_gpu, "trains");
  } else if (parameters.has_solver_mode() && parameters.solver_mode() == caffe::SolverParameter::GPU) {
    say_that_gpus_are_not_used(std::to_string(parameters.device_id()), "trains");
  }
  parameters.set_solver_mode(caffe::SolverParameter::CPU);
  caffe::SignalHandler signals(on_sigint, on_sighup);
  caffe::shared_ptr<caffe::Solver<float>> solver(caffe::SolverRegistry<float>::CreateSolver(parameters));
  solver->SetActionFunction(signals.GetActionFunction());
  std::istringstream weights(FLAGS_weights);
  for (std::string file; std::getline(weights, file, ',');) {
    if (check_file("weights", file) != 0) {
      return 1;
    }
    solver->net()->CopyTrainedLayersFrom(file);
    for (const auto& net : solver->test_nets()) {
      net->CopyTrainedLayersFrom(file);
    }
  }
  solver->Solve(FLAGS_snapshot.empty() ? nullptr : FLAGS_snapshot.c_str());
  LOG(INFO) << "Optimization Done.";
  return 0;
}

// Prints the mean of every output over all batches, in the form that scripts for the original look for.
int test() {
  if (check_file("model", FLAGS_model) != 0 || check_file("weights", FLAGS_weights) != 0) {
    return 1;
  }
  if (FLAGS_iterations < 1) {
    return fail("--iterations must be at least 1");
  }
  if (!FLAGS_gpu.empty()) {
    say_that_gpus_are_not_used(FLAGS_gpu, "tests");
  }
  caffe::Net<float> net(FLAGS_model, caffe::TEST);
  net.CopyTrainedLayersFrom(FLAGS_weights);
  std::vector<std::string> names;
  std::vector<double> sums;
  float loss_sum = 0;
  for (int batch = 0; batch < FLAGS_iterations; ++batch) {
    float loss = 0;
    const std::vector<caffe::Blob<float>*>& outputs = net.Forward(&loss);
    loss_sum += loss;
    size_t place = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = net.blob_names()[net.output_blob_indices()[i]];
      for (int j = 0; j < outputs[i]->count(); ++j, ++place) {
        const float value = outputs[i]->cpu_data()[j];
        if (batch == 0) {
          names.push_back(name);
          sums.push_back(0);
        }
        sums[place] += value;
        LOG(INFO) << "Batch " << batch << ", " << name << " = " << value;
      }
    }
  }
  LOG(INFO) << "Loss: " << loss_sum / FLAGS_iterations;
  for (size_t i = 0; i < names.size(); ++i) {
    LOG(INFO) << names[i] << " = " << sums[i] / FLAGS_iterations;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // No log files: the output of the run has it all.
  FLAGS_logtostderr = true;
  GFLAGS_NAMESPACE::SetVersionString("1.0.0 (CPU only)");
  GFLAGS_NAMESPACE::SetUsageMessage(
      "trains and tests with Caffe, on the CPU\n"
      "  caffe train --solver=FILE [--weights=FILE | --snapshot=FILE] [-gpu LIST]\n"
      "  caffe test --model=FILE --weights=FILE [--iterations=N]\n"
      "  caffe device_query");
  caffe::GlobalInit(&argc, &argv);
  const std::string command = argc == 2 ? argv[1] : "";
  if (command == "train") {
    return train();
  }
  if (command == "test") {
    return test();
  }
  if (command == "device_query") {
    return fail("this build has no GPU support; it trains on the CPU");
  }
  GFLAGS_NAMESPACE::ShowUsageWithFlagsRestrict(argv[0], "caffe.cpp");
  return 1;
}
