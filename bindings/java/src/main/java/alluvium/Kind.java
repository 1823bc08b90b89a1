package alluvium;

import java.util.Locale;

/** The kind of an error: the same name in every language. */
public enum Kind {
  /** The store is open in another process or through another object. */
  LOCKED,
  /** The directory contains no store, or it contains other files. */
  NOT_A_STORE,
  /** A store, keyspace, snapshot or file with this name already exists. */
  ALREADY_EXISTS,
  /** The path, keyspace or snapshot does not exist. */
  NOT_FOUND,
  /** A newer version of Alluvium wrote the store or one of its keyspaces. */
  NEWER_VERSION,
  /** An earlier version wrote the store, in a format that is no longer supported. */
  OLDER_VERSION,
  /** Stored data is damaged. */
  CORRUPT,
  /** The disk is full, or the size limit is reached. Reads and deletes still work. */
  FULL,
  /** The process or the machine is out of file descriptors, memory or another resource. */
  EXHAUSTED,
  /** The store was opened for reading only, or its file system is mounted read-only. */
  READ_ONLY,
  /** The operating system denies access to the files. */
  PERMISSION_DENIED,
  /** The device or the operating system reported an error. */
  IO,
  /** The store rejects writes after an earlier failure: close it and open it again. */
  POISONED,
  /** The store was closed. */
  CLOSED,
  /** The keyspace was dropped. */
  DROPPED,
  /** An argument or an option is out of bounds or incompatible with the store. */
  INVALID_ARGUMENT,
  /** A stored value cannot be combined with the operands that were merged into it. */
  BAD_VALUE,
  /** The log no longer has the commits, or the transaction has no such savepoint. */
  GONE,
  /** Another commit changed data that the transaction depends on: run it again. */
  CONFLICT,
  /** The transaction was aborted to resolve a deadlock: run it again. */
  DEADLOCK,
  /** Waiting for a lock took too long, or the transaction exceeded its age limit. */
  TIMED_OUT,
  /** The transaction was committed, rolled back or aborted earlier. */
  ENDED,
  /** A limit on the size of a transaction is reached. */
  LIMIT_REACHED,
  /** The store cannot be closed, because cursors, snapshots, transactions or ingests live. */
  IN_USE,
  /** The library has a defect, which has ended the call. */
  PANICKED,
  /** A kind that a later version of the library has added. */
  OTHER;

  /** Returns the name that the kind has in every language, such as "not_found". */
  public String label() {
    return name().toLowerCase(Locale.ROOT);
  }

  static Kind labelled(String label) {
    for (Kind kind : values()) {
      if (kind.label().equals(label)) {
        return kind;
      }
    }
    return OTHER;
  }
}
