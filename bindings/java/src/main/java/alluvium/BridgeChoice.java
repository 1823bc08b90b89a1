package alluvium;

import java.nio.file.Path;

/** Chooses the bridge. The class of this name for Java 22 and newer takes the foreign functions. */
final class BridgeChoice {
  private BridgeChoice() {}

  /** Returns whether the library is called by JNI, so that its part for JNI must be loaded. */
  static boolean isJni() {
    return true;
  }

  /** Returns the bridge to a library. For JNI, both files are loaded already. */
  static Bridge bridge(Path library) {
    return new JniBridge();
  }
}
