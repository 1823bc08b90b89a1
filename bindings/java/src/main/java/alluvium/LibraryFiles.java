package alluvium;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** Finds liballuvium: see {@code docs/java.md}. */
final class LibraryFiles {
  private static final String LIBRARY = "liballuvium.so.0";
  private static final String JNI = "liballuvium_jni.so";
  private static final String PROPERTY = "alluvium.library";

  private final List<String> tried = new ArrayList<>();

  private LibraryFiles() {}

  /** Loads the library from the first place that has it. */
  static Bridge load() {
    return new LibraryFiles().first();
  }

  private Bridge first() {
    String named = System.getProperty(PROPERTY);
    Bridge found = null;
    if (named != null) {
      found = inFolder(Path.of(named), "the property " + PROPERTY);
    } else {
      found = inJar(platform());
      for (String folder : System.getProperty("java.library.path", "").split(File.pathSeparator)) {
        if (found == null && !folder.isEmpty()) {
          found = inFolder(Path.of(folder), "java.library.path");
        }
      }
    }
    if (found == null) {
      throw new UnsatisfiedLinkError(
          "liballuvium cannot be loaded for the platform "
              + platform()
              + ". Add the jar alluvium-VERSION-"
              + platform()
              + ".jar to the class path, or name the folder of "
              + LIBRARY
              + " in the property "
              + PROPERTY
              + ". Tried: "
              + String.join("; ", tried));
    }
    return found;
  }

  /** Returns the platform of this process, such as "linux-x86_64" or "linux-aarch64-musl". */
  static String platform() {
    String system = System.getProperty("os.name").toLowerCase(Locale.ROOT).replace(" ", "");
    String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
    machine = machine.equals("amd64") ? "x86_64" : machine;
    return system + "-" + machine + (system.equals("linux") && isMusl() ? "-musl" : "");
  }

  /** Returns whether the C library of this process is musl: its loader is mapped. */
  private static boolean isMusl() {
    try {
      return Files.readString(Path.of("/proc/self/maps")).contains("/ld-musl-");
    } catch (IOException unknown) {
      return false;
    }
  }

  private Bridge inJar(String platform) {
    String folder = "/alluvium/native/" + platform + "/";
    if (LibraryFiles.class.getResource(folder + LIBRARY) == null) {
      tried.add(folder + LIBRARY + " on the class path: there is none");
      return null;
    }
    Path place = null;
    try {
      place = Files.createTempDirectory("alluvium");
      for (String name : BridgeChoice.isJni() ? List.of(LIBRARY, JNI) : List.of(LIBRARY)) {
        try (InputStream from = LibraryFiles.class.getResourceAsStream(folder + name)) {
          Files.copy(from, place.resolve(name));
        }
      }
      return inFolder(place, "copied from the class path to java.io.tmpdir");
    } catch (IOException failure) {
      tried.add(folder + LIBRARY + " on the class path: it cannot be copied to java.io.tmpdir: " + failure);
      return null;
    } finally {
      // A loaded library stays mapped.
      remove(place);
    }
  }

  private static void remove(Path place) {
    if (place == null) {
      return;
    }
    for (String name : List.of(LIBRARY, JNI, "")) {
      try {
        Files.deleteIfExists(place.resolve(name));
      } catch (IOException left) {
        // What remains is a temporary file.
      }
    }
  }

  private Bridge inFolder(Path folder, String why) {
    Path library = folder.resolve(LIBRARY).toAbsolutePath();
    if (!Files.exists(library)) {
      tried.add(library + " (" + why + "): there is none");
      return null;
    }
    try {
      if (BridgeChoice.isJni()) {
        System.load(library.toString());
        System.load(folder.resolve(JNI).toAbsolutePath().toString());
      }
      return BridgeChoice.bridge(library);
    } catch (UnsatisfiedLinkError | RuntimeException refusal) {
      tried.add(library + " (" + why + "): " + refusal.getMessage());
      return null;
    }
  }
}
