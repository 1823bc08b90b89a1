package alluvium;

/**
 * An associative function of two values. The store calls it from its own threads, also several at
 * the same time. It may not call the store.
 */
@FunctionalInterface
public interface MergeOperator {
  /**
   * Returns {@code older} merged with {@code newer}. If it throws, the result is {@code newer}, and
   * the exception goes to the thread's handler of uncaught exceptions.
   */
  byte[] merge(byte[] older, byte[] newer);

  /**
   * Returns whether the operator accepts these bytes as an operand and as a value. Otherwise the
   * write of the operand fails, or the read of a value that has operands.
   */
  default boolean accepts(byte[] bytes) {
    return true;
  }

  /**
   * Returns whether the result is the same in whichever order operands are merged. Transactions that
   * merge into a key without reading it do not conflict then.
   */
  default boolean isCommutative() {
    return false;
  }
}
