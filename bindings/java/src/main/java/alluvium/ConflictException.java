package alluvium;

/**
 * A transaction has met a conflict or a deadlock and has taken no effect: run it again. {@link
 * Store#transact} does so.
 */
public final class ConflictException extends AlluviumException {
  private static final long serialVersionUID = 1;

  ConflictException(Kind kind, String message) {
    super(kind, message);
  }
}
