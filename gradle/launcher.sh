#!/bin/sh
# Starts @NAME@. Made by the build from gradle/launcher.sh.
home=$(readlink -f "$0") && home=${home%/bin/*}
if [ -n "$JAVA_HOME" ]; then
  java=$JAVA_HOME/bin/java
elif [ -x "$home/jre/bin/java" ]; then
  # The one with which it was installed, whatever comes first on the PATH.
  java=$home/jre/bin/java
else
  java=java
fi
if ! command -v "$java" >/dev/null 2>&1; then
  echo "@NAME@: no Java at '$java': install a Java 17 runtime, or set JAVA_HOME" >&2
  exit 125
fi
# Java names files in the characters of its locale, and cannot name those of a bundle if these are not UTF-8. The property
# keeps what LC_ALL was: tables are drawn for the caller's terminal, and `berth lock` gives it back to its command.
# Another locale with characters of its own stays: in UTF-8, Java would damage the words of whoever has it.
locale=
case ${LC_ALL:-${LC_CTYPE:-${LANG:-}}} in
  '' | C | POSIX)
    locale=-Dberth.callerLcAll=${LC_ALL-}
    export LC_ALL=C.UTF-8
    ;;
esac
lib=$home/lib
# Out of memory it ends at once: what it leaves is made for that, and a process that is half alive is not.
# The archive of parsed classes belongs to one JVM and one place; where it does not fit, Java starts without it.
exec "$java" -Xshare:auto -XX:SharedArchiveFile="$lib/@NAME@.jsa" -Xlog:disable -Xlog:all=error:stderr -XX:+ExitOnOutOfMemoryError \
  @OPTIONS@ -Dberth.home="$home" ${locale:+"$locale"} $BERTH_JAVA_OPTS -cp "@CLASSPATH@" @MAIN@ "$@"
