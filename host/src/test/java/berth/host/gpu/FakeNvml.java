package berth.host.gpu;

import com.sun.jna.Pointer;
import com.sun.jna.ptr.IntByReference;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToIntFunction;

/** NVML in Java, with the functions that a test gives it. Remembers what was called. */
final class FakeNvml implements InvocationHandler {
  static final Pointer DEVICE = new Pointer(0x1000);
  static final Pointer EVENTS = new Pointer(0x2000);

  /** How a driver says that it lacks a function. */
  enum Lacking {
    SYMBOL,
    RETURN_CODE
  }

  private final Lacking lacking;
  private final Map<String, ToIntFunction<Object[]>> functions = new HashMap<>();
  private final List<String> calls = new ArrayList<>();

  FakeNvml(Lacking lacking) {
    this.lacking = lacking;
  }

  /** A driver of the first generation with one GPU, GPU-a, that answers nothing but who it is. */
  static FakeNvml ofOneGpu(Lacking lacking) {
    return new FakeNvml(lacking)
        .with("nvmlInit", in -> 0)
        .with("nvmlShutdown", in -> 0)
        .with("nvmlDeviceGetCount", in -> put((IntByReference) in[0], 1))
        .with("nvmlDeviceGetHandleByIndex", in -> put((PointerByReference) in[1], DEVICE))
        .with("nvmlDeviceGetUUID", in -> put((byte[]) in[1], "GPU-a"))
        .with("nvmlDeviceGetName", in -> NvmlLibrary.NVML_ERROR_NOT_SUPPORTED)
        .with("nvmlSystemGetDriverVersion", in -> NvmlLibrary.NVML_ERROR_NOT_SUPPORTED);
  }

  /** Lets the driver report XIDs of its GPU, by way of {@code wait}. */
  FakeNvml withEvents(ToIntFunction<Object[]> wait) {
    return with("nvmlEventSetCreate", in -> put((PointerByReference) in[0], EVENTS))
        .with("nvmlEventSetFree", in -> 0)
        .with("nvmlDeviceRegisterEvents", in -> 0)
        .with("nvmlEventSetWait", wait);
  }

  /** Gives the driver a function, which gets its arguments and returns NVML's code. */
  FakeNvml with(String function, ToIntFunction<Object[]> body) {
    functions.put(function, body);
    return this;
  }

  NvmlLibrary library() {
    return (NvmlLibrary)
        Proxy.newProxyInstance(
            NvmlLibrary.class.getClassLoader(), new Class<?>[] {NvmlLibrary.class}, this);
  }

  int calls(String function) {
    return Collections.frequency(calls, function);
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) {
    String function = method.getName();
    if (function.equals("nvmlErrorString")) {
      return "so it says";
    }
    calls.add(function);
    ToIntFunction<Object[]> body = functions.get(function);
    if (body != null) {
      return body.applyAsInt(arguments);
    }
    if (lacking == Lacking.SYMBOL) {
      throw new UnsatisfiedLinkError("undefined symbol: " + function);
    }
    return NvmlLibrary.NVML_ERROR_FUNCTION_NOT_FOUND;
  }

  static int put(IntByReference to, int value) {
    to.setValue(value);
    return NvmlLibrary.NVML_SUCCESS;
  }

  static int put(LongByReference to, long value) {
    to.setValue(value);
    return NvmlLibrary.NVML_SUCCESS;
  }

  static int put(PointerByReference to, Pointer value) {
    to.setValue(value);
    return NvmlLibrary.NVML_SUCCESS;
  }

  /** Writes ASCII text, ended by the 0 that is in the buffer already. */
  static int put(byte[] to, String text) {
    for (int i = 0; i < text.length(); i++) {
      to[i] = (byte) text.charAt(i);
    }
    return NvmlLibrary.NVML_SUCCESS;
  }
}
