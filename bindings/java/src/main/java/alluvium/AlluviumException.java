package alluvium;

/** An error of a store. Its message says what was wrong, where, and what to do. */
public class AlluviumException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** The kind of the error. */
  private final Kind kind;

  AlluviumException(Kind kind, String message) {
    super(message);
    this.kind = kind;
  }

  /** Returns the kind of the error, which programs compare. */
  public Kind kind() {
    return kind;
  }

  static AlluviumException of(Kind kind, String message) {
    return switch (kind) {
      case CONFLICT, DEADLOCK -> new ConflictException(kind, message);
      default -> new AlluviumException(kind, message);
    };
  }

  static AlluviumException argument(String message) {
    return new AlluviumException(Kind.INVALID_ARGUMENT, message);
  }
}
