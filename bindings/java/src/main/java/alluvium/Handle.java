package alluvium;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Cleaner;
import java.lang.ref.Reference;

/**
 * An object of the library. It is freed by {@link #free}, or by a cleaner once the program has
 * forgotten it. No call uses it while it is freed: the last call that runs frees it.
 *
 * <p>A freed object passes NULL to the library, which answers with {@link Kind#INVALID_ARGUMENT}.
 */
abstract class Handle {
  private static final Cleaner CLEANER = Cleaner.create();
  private static final VarHandle USERS;
  private static final VarHandle ADDRESS;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      USERS = lookup.findVarHandle(State.class, "users", int.class);
      ADDRESS = lookup.findVarHandle(State.class, "address", long.class);
    } catch (ReflectiveOperationException missing) {
      throw new ExceptionInInitializerError(missing);
    }
  }

  /** The part that outlives the object. */
  private static final class State implements Runnable {
    private static final int FREED = 1;
    private static final int USER = 2;

    private final long free;
    private volatile long address;

    /** Twice the number of calls that run, and 1 if the object is freed. */
    private volatile int users;

    State(long address, long free) {
      this.address = address;
      this.free = free;
    }

    @Override
    public void run() {
      if ((int) USERS.getAndBitwiseOr(this, FREED) == 0) {
        release();
      }
    }

    void release() {
      long freed = (long) ADDRESS.getAndSet(this, 0L);
      if (freed != 0) {
        Library.call(free, freed);
      }
    }
  }

  private final State state;
  private final Cleaner.Cleanable cleanable;

  Handle(long address, long free) {
    state = new State(address, free);
    cleanable = CLEANER.register(this, state);
  }

  /** Returns the address for a call, or 0 if the object is freed. The call ends with `leave`. */
  final long enter() {
    int before = (int) USERS.getAndAdd(state, State.USER);
    return (before & State.FREED) == 0 ? state.address : 0;
  }

  final void leave() {
    int before = (int) USERS.getAndAdd(state, -State.USER);
    if (before == (State.USER | State.FREED)) {
      state.release();
    }
    Reference.reachabilityFence(this);
  }

  /** Frees the object. Freeing it again does nothing. */
  final void free() {
    cleanable.clean();
  }

  final boolean isFreed() {
    return (state.users & State.FREED) != 0;
  }

  /** Returns the address of an object for a call, or 0 for null. */
  static long enter(Handle handle) {
    return handle == null ? 0 : handle.enter();
  }

  static void leave(Handle handle) {
    if (handle != null) {
      handle.leave();
    }
  }
}
