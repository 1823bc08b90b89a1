package alluvium;

import java.nio.file.Path;

/** Chooses the bridge: the foreign functions, unless the property {@code alluvium.jni} is set. */
final class BridgeChoice {
  private BridgeChoice() {}

  /** Returns whether the library is called by JNI, so that its part for JNI must be loaded. */
  static boolean isJni() {
    return Boolean.getBoolean("alluvium.jni");
  }

  /** Returns the bridge to a library. For JNI, both files are loaded already. */
  static Bridge bridge(Path library) {
    return isJni() ? new JniBridge() : new ForeignBridge(library);
  }
}
