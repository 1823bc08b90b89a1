package alluvium;

/** How a transaction depends on a key that it reads. */
public enum Dependence {
  /** As its isolation says. */
  TRACKED,
  /** Not at all. */
  UNTRACKED,
  /** With a shared lock, or a conflict if the key changes. */
  SHARED,
  /** With an exclusive lock, or a conflict if the key changes. */
  FOR_UPDATE
}
