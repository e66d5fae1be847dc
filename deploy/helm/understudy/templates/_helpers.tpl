{{/* Names end in -admin and -migrate, which fit into 63 letters. */}}
{{- define "understudy.name" -}}
{{- $name := .Release.Name -}}
{{- if not (contains "understudy" $name) -}}{{- $name = printf "%s-understudy" $name -}}{{- end -}}
{{- $name | trunc 54 | trimSuffix "-" -}}
{{- end -}}

{{- define "understudy.selector" -}}
app.kubernetes.io/name: understudy
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{- define "understudy.labels" -}}
{{ include "understudy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "understudy.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The configuration given, and over it what the pods below rely on. */}}
{{- define "understudy.config" -}}
{{- $memory := dict "data_dir" "/data" -}}
{{- if .Values.postgresql.enabled -}}{{- $_ := set $memory "database_url" "${UNDERSTUDY_DATABASE_URL}" -}}{{- end -}}
{{- $fixed := dict "listen" (dict "host" "0.0.0.0" "port" 8080) "memory" $memory -}}
{{- $host := ternary "0.0.0.0" "127.0.0.1" .Values.admin.exposed -}}
{{- $_ := set $fixed "admin" (dict "host" $host "port" 8081) -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $fixed) -}}
{{- end -}}

{{- define "understudy.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "understudy.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The pod of the StatefulSet and of the Deployment. */}}
{{- define "understudy.pod" -}}
metadata:
  labels:
    {{- include "understudy.selector" . | nindent 4 }}
  annotations:
    kubectl.kubernetes.io/default-container: gateway
    {{- if .Values.restartOnConfigChange }}
    checksum/config: {{ include "understudy.config" . | sha256sum }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if and .Values.postgresql.enabled .Values.topologySpread }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "understudy.selector" . | nindent 10 }}
  {{- end }}
  securityContext:
    {{- include "understudy.podSecurity" . | nindent 4 }}
  containers:
    - name: gateway
      image: {{ include "understudy.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/understudy/config.yaml]
      envFrom:
        - secretRef: {name: {{ .Values.secretName }}}
      ports:
        - {name: http, containerPort: 8080}
        - {name: admin, containerPort: 8081}
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
        timeoutSeconds: 5
      lifecycle:
        preStop:
          # Until the Service sends nothing here any more.
          exec: {command: [sleep, "5"]}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- include "understudy.containerSecurity" . | nindent 8 }}
      volumeMounts:
        - {name: data, mountPath: /data}
        {{- if .Values.postgresql.enabled }}
        # The installation's secret, in the place where the gateway looks for it.
        - {name: installation, mountPath: /data/secret, subPath: secret, readOnly: true}
        - {name: database, mountPath: /etc/understudy-database, readOnly: true}
        {{- end }}
        - {name: config, mountPath: /etc/understudy, readOnly: true}
        - {name: tmp, mountPath: /tmp}
  volumes:
    {{- if .Values.postgresql.enabled }}
    - name: data
      emptyDir: {sizeLimit: 10Gi}
    - name: installation
      secret: {secretName: {{ .Values.postgresql.installationSecretName }}, defaultMode: 0440}
    - name: database
      secret: {secretName: {{ .Values.postgresql.caSecretName }}, defaultMode: 0440}
    {{- end }}
    - name: config
      configMap: {name: {{ include "understudy.name" . }}}
    - name: tmp
      emptyDir: {}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
