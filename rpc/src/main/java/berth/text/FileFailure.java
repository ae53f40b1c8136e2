package berth.text;

import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;

/** Says why a file could not be read or written in the words of a shell. */
public final class FileFailure {
  private FileFailure() {}

  /** The file, if it is known, and why: {@code model.h5: No space left on device}. */
  public static String words(IOException failure) {
    return failure instanceof FileSystemException e && e.getFile() != null
        ? e.getFile() + ": " + why(e)
        : why(failure);
  }

  /** Why, without the file. */
  public static String why(IOException failure) {
    // What Java says of these is the file and nothing else.
    if (failure instanceof AccessDeniedException) {
      return "Permission denied";
    }
    if (failure instanceof NoSuchFileException) {
      return "No such file or directory";
    }
    if (failure instanceof FileAlreadyExistsException) {
      return "File exists";
    }
    if (failure instanceof NotDirectoryException) {
      return "Not a directory";
    }
    if (failure instanceof DirectoryNotEmptyException) {
      return "Directory not empty";
    }
    if (failure instanceof CharacterCodingException) {
      return "it is not text in UTF-8";
    }
    if (failure instanceof FileSystemException e && e.getReason() != null) {
      return e.getReason();
    }
    return failure.getMessage() == null ? "Input/output error" : failure.getMessage();
  }
}
