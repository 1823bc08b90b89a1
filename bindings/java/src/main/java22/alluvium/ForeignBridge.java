package alluvium;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Collections;

/** Calls the library by the foreign functions of Java 22 and newer, without JNI. */
final class ForeignBridge extends Bridge {
  private static final MethodHandle CALL = Linker.nativeLinker().downcallHandle(words(JAVA_LONG, 8));

  private final SymbolLookup library;

  ForeignBridge(Path path) {
    library = SymbolLookup.libraryLookup(path, Arena.global());
  }

  private static FunctionDescriptor words(MemoryLayout result, int count) {
    MemoryLayout[] words = Collections.nCopies(count, JAVA_LONG).toArray(MemoryLayout[]::new);
    return result == null ? FunctionDescriptor.ofVoid(words) : FunctionDescriptor.of(result, words);
  }

  @Override
  long symbol(String name) {
    return library
        .find(name)
        .orElseThrow(() -> new UnsatisfiedLinkError("undefined symbol: " + name))
        .address();
  }

  @Override
  long call(long function, long a, long b, long c, long d, long e, long f, long g, long h) {
    try {
      return (long) CALL.invokeExact(MemorySegment.ofAddress(function), a, b, c, d, e, f, g, h);
    } catch (RuntimeException | Error failure) {
      throw failure;
    } catch (Throwable checked) {
      throw new AssertionError(checked);
    }
  }

  @Override
  long address(ByteBuffer direct) {
    return MemorySegment.ofBuffer(direct).address() - direct.position();
  }

  @Override
  byte[] copy(long address, int length) {
    return MemorySegment.ofAddress(address).reinterpret(length).toArray(JAVA_BYTE);
  }

  @Override
  String text(long address) {
    return MemorySegment.ofAddress(address).reinterpret(Long.MAX_VALUE).getString(0);
  }

  @Override
  long callback(Callbacks.Function function) {
    FunctionDescriptor descriptor =
        switch (function) {
          case MERGE -> words(null, 6);
          case CHECK -> words(JAVA_INT, 3);
          case DECIDE -> words(JAVA_INT, 8);
          case FREE -> words(null, 1);
        };
    MethodType type = descriptor.toMethodType();
    try {
      MethodHandle target =
          MethodHandles.lookup().findStatic(Callbacks.class, function.method(), type);
      return Linker.nativeLinker().upcallStub(target, descriptor, Arena.global()).address();
    } catch (ReflectiveOperationException missing) {
      throw new AssertionError(missing);
    }
  }
}
